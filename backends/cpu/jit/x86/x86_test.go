package x86

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// line is an instruction: as text, and our bytes.
type line struct {
	text    string
	code    []byte
	refused []bool // by each of the levels
}

// levels are those that code is made for, and some that lack one thing.
var levels = []Features{0, AVX512, AVX512 | VNNI, AVX512 | BF16, AVX512 | VNNI | BF16, AVX512 | VNNI | BF16 | AMX, AMX, VNNI | BF16 | AMX, AVX512 | VBMI, VBMI}

// needs is what manuals say that an instruction needs beside AVX2.
func needs(f *Form, evex bool) (n Features) {
	if evex || strings.Contains(f.Ops, "k") {
		n = AVX512
	}
	switch {
	case strings.HasPrefix(f.Name, "vpdp"):
		n |= VNNI
	case strings.Contains(f.Name, "bf16") && f.Name[0] == 'v':
		n |= BF16
	case f.Name == "vpermb":
		n |= VBMI
	case f.Name[0] == 't':
		n |= AMX
	}
	return n
}

func name(w Width, r Reg) string { return w.Name(r) }

// randomMem is a memory operand, with a vector's index if vsib, of 32 with EVEX.
func randomMem(r *rand.Rand, vsib, evex bool) Mem {
	m := Mem{Base: Reg(r.IntN(16)), Index: None, Scale: 1}
	switch r.IntN(4) {
	case 0:
	case 1:
		m.Disp = int32(r.IntN(64)-32) << r.IntN(9)
	case 2:
		m.Disp = int32(r.IntN(256)-128) * 64
	case 3:
		m.Disp = int32(r.Uint32()) >> r.IntN(20)
	}
	switch {
	case vsib && evex:
		m.Index, m.Scale = Reg(r.IntN(32)), 1<<r.IntN(4)
	case vsib:
		m.Index, m.Scale = Reg(r.IntN(16)), 1<<r.IntN(4)
	case r.IntN(2) == 0:
		m.Index, m.Scale = Reg(r.IntN(16)), 1<<r.IntN(4)
		if m.Index == RSP {
			m.Index = RDI
		}
	}
	return m
}

// random is an instruction of the form with random operands, or nil where this
// choice has none.
func (f *Form) random(r *rand.Rand, evex bool) *line {
	in := Inst{VL: []int{16, 32, 64}[r.IntN(3)]}
	if !evex && in.VL == 64 || in.VL < f.Min || f.Ops[0] == 'x' && in.VL > 16 {
		return nil
	}
	if strings.Trim(f.Ops, "krRt") == "" {
		in.VL = 16
	}
	regs := 16
	if evex {
		regs = 32
	}
	pick := func(kind byte) Reg {
		switch kind {
		case 'k', 't':
			return Reg(r.IntN(8))
		case 'r', 'R':
			return Reg(r.IntN(16))
		}
		return Reg(r.IntN(regs))
	}
	last := len(f.Ops) - 1
	if f.Is4 {
		last--
		in.C = pick('v')
	}
	in.D = pick(f.Ops[0])
	switch kind := f.Ops[last]; f.Layout {
	case RVM, MVR:
		in.A, in.B = pick(f.Ops[1]), pick(kind)
	case RMV:
		in.A, in.B = pick(kind), pick(f.Ops[1])
	default:
		in.B = pick(kind)
	}
	if f.MemOK && (evex || f.VMem) && (!f.RegOK || r.IntN(2) == 0) {
		in.B, in.IsMem, in.Mem = 0, true, randomMem(r, f.VSIB, evex)
		if f.Index && in.Mem.Index == None {
			return nil
		}
		in.Broadcast = evex && f.Elem != 0 && r.IntN(2) == 0
	} else if !f.RegOK {
		return nil
	}
	if f.Layout == RMV && f.Ops[0] == 't' && (in.D == in.A || in.D == in.B || in.A == in.B) {
		return nil // tiles have to differ
	}
	if f.VSIB && (in.D == in.Mem.Index || f.Layout == RMV && (in.D == in.A || in.A == in.Mem.Index)) {
		return nil // no such instruction
	}
	if evex && (f.VSIB || r.IntN(2) == 0) {
		in.K = Reg(1 + r.IntN(7))
		storesMem := in.IsMem && (f.Layout == MR)
		if !storesMem && !f.VSIB && f.Ops[0] != 'k' && r.IntN(2) == 0 {
			in.Zero = true
		}
		switch {
		case strings.ContainsAny(f.Ops, "rR"), f.Ops == "vk", f.Name == "vmovntps", f.Ops[0] == 'x':
			if f.Name != "vpbroadcastd" && f.Name != "vpbroadcastq" {
				in.K, in.Zero = 0, false
			}
		}
	}
	if f.Imm {
		in.Imm = uint8(r.Uint32())
		if f.Name[:4] == "vpcm" {
			in.Imm &= 7
		}
		if f.Name == "vcmpps" || f.Name == "vcmppd" {
			in.Imm &= 31
		}
	}
	prefix := "{vex3} "
	onlyEVEX := evex && in.IsMem && !f.VMem // which Emit has to see by itself
	if f.evexNeeded(&in) != evex && !onlyEVEX {
		return nil
	}
	if evex {
		prefix = "{evex} "
	}
	if f.Name[0] == 'k' {
		prefix = ""
	}
	var a Asm
	a.Emit(f, in)
	code := a.Code
	if !evex && f.Name[0] != 'k' && code[0] == 0xC5 { // as the long form
		code = append([]byte{0xC4, code[1]&0x80 | 0x60 | 1, code[1] & 0x7f}, code[2:]...)
	}
	var refused []bool
	for _, l := range levels {
		less := Asm{Has: l}
		less.Emit(f, in)
		refused = append(refused, less.Finish() != nil)
	}
	return &line{prefix + f.Text(in), code, refused}
}

// assemble gives the bytes that GNU as makes of each line.
func assemble(t *testing.T, lines []line) [][]byte {
	t.Helper()
	as, err := exec.LookPath("as")
	if err != nil {
		t.Skip("GNU as (binutils) is not installed; it is what the encoder is held against")
	}
	objcopy, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("objcopy (binutils) is not installed; it takes the bytes out of what as makes")
	}
	var src bytes.Buffer
	src.WriteString(".intel_syntax noprefix\n.text\n")
	for _, l := range lines {
		fmt.Fprintf(&src, "%s\n.p2align 4, 0xf1\n", l.text)
	}
	dir := t.TempDir()
	in, obj, bin := filepath.Join(dir, "x.s"), filepath.Join(dir, "x.o"), filepath.Join(dir, "x.bin")
	require.NoError(t, os.WriteFile(in, src.Bytes(), 0o600))
	if out, err := exec.Command(as, "--64", "-o", obj, in).CombinedOutput(); err != nil {
		said := strings.Split(string(out), "\n")
		t.Fatalf("as: %v\n%s", err, strings.Join(said[:min(len(said), 30)], "\n"))
	}
	out, err := exec.Command(objcopy, "-O", "binary", "-j", ".text", obj, bin).CombinedOutput()
	require.NoError(t, err, "%s", out)
	all, err := os.ReadFile(bin)
	require.NoError(t, err)
	var code [][]byte
	for len(all) > 0 {
		n := min(16, len(all))
		code = append(code, all[:n])
		all = all[n:]
	}
	require.Len(t, code, len(lines))
	return code
}

func check(t *testing.T, lines []line) {
	t.Helper()
	bad := 0
	for i, want := range assemble(t, lines) {
		l := lines[i]
		padded := append(append([]byte(nil), l.code...), bytes.Repeat([]byte{0xf1}, 16)...)[:len(want)]
		if !bytes.Equal(padded, want) {
			if bad++; bad < 40 {
				t.Errorf("%s: % x, as has % x", l.text, l.code, bytes.TrimRight(want, "\xf1"))
			}
		}
	}
	t.Logf("%d instructions", len(lines))
}

// Every row of the table, in each of its encodings, with random operands. Where there is no AVX-512 those of EVEX are
// refused, and what has masks or tiles.
func TestForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	each := 60
	if brief.On() {
		each = 12
	}
	var lines []line
	for _, f := range Forms {
		for _, e := range []Enc{VEX, EVEX} {
			if f.Enc&e == 0 {
				continue
			}
			made := 0
			for tries := 0; made < each && tries < 200*each; tries++ {
				if l := f.random(r, e == EVEX); l != nil {
					need := needs(f, e == EVEX)
					for i, has := range levels {
						require.Equal(t, need&^has != 0, l.refused[i], "%s, with %v", l.text, has)
					}
					lines = append(lines, *l)
					made++
				}
			}
			if made == 0 {
				t.Errorf("%s (%s): no operands were found for encoding %d", f.Name, f.Ops, e)
			}
		}
	}
	check(t, lines)
}

// What has no row of the table is refused like rows.
func TestTilesAreRefused(t *testing.T) {
	for name, emit := range map[string]func(a *Asm){
		"ldtilecfg": func(a *Asm) { a.TileConfig(At(RAX, 0)) }, "tilerelease": (*Asm).TileRelease, "tilezero": func(a *Asm) { a.TileZero(1) },
	} {
		for _, has := range levels {
			a := Asm{Has: has}
			emit(&a)
			if err := a.Finish(); has&AMX != 0 {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, "x86: "+name+" is for machines with AMX")
			}
		}
	}
}

// TestRefused: the error is of the first instruction that the machine lacks, and says of which features it is.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		has  Features
		of   []*Form
		want string
	}{
		{0, []*Form{AddPS}, ""},
		{0, []*Form{AddPS, DotI16, TileDotI8}, "x86: vpdpwssd is for machines with AVX-512, AVX512-VNNI"},
		{AVX512, []*Form{DotI16, DotB16}, "x86: vpdpwssd is for machines with AVX512-VNNI"},
		{AVX512 | VNNI, []*Form{DotI16, DotB16, TileDotI8}, "x86: vdpbf16ps is for machines with AVX512-BF16"},
		{AVX512 | VNNI | BF16, []*Form{DotI16, DotB16, TileDotI8}, "x86: tdpbssd is for machines with AMX"},
		{AVX512 | VNNI | BF16 | AMX, []*Form{DotI16, DotB16, TileDotI8}, ""},
	} {
		a := Asm{Has: c.has}
		for _, f := range c.of {
			vl := 64
			if f == AddPS {
				vl = 32
			} else if strings.Contains(f.Ops, "t") {
				vl = 16
			}
			a.Emit(f, Inst{VL: vl, D: 1, A: 2, B: 3})
		}
		if err := a.Finish(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}

func TestGeneral(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var lines []line
	add := func(text string, emit func(a *Asm)) {
		var said []Line
		a := Asm{Lines: &said}
		emit(&a)
		lines = append(lines, line{text: text, code: a.Code}, line{text: said[0].Text, code: a.Code})
	}
	alu := map[ALU]string{ADD: "add", OR: "or", AND: "and", SUB: "sub", XOR: "xor", CMP: "cmp"}
	conds := map[Cond]string{O: "o", B: "b", AE: "ae", E: "e", NE: "ne", BE: "be", A: "a", S: "s", NS: "ns", L: "l", GE: "ge", LE: "le", G: "g"}
	for range 150 {
		d, s, n := Reg(r.IntN(16)), Reg(r.IntN(16)), Reg(r.IntN(16))
		m := randomMem(r, false, false)
		_, mt, _ := strings.Cut(m.text(8, 0), "ptr ")
		v := int32(r.Uint32()) >> r.IntN(31)
		for _, w := range []Width{W32, W64} {
			size := sizes[int(w)]
			dn, sn := name(w, d), name(w, s)
			add(fmt.Sprintf("mov %s, %s", dn, sn), func(a *Asm) { a.Mov(w, d, s) })
			add(fmt.Sprintf("mov %s, %s ptr %s", dn, size, mt), func(a *Asm) { a.Load(w, d, m) })
			add(fmt.Sprintf("mov %s ptr %s, %d", size, mt, v), func(a *Asm) { a.StoreImm(w, m, v) })
			for op, text := range alu {
				add(fmt.Sprintf("%s %s, %s", text, dn, sn), func(a *Asm) { a.Op(op, w, d, s) })
				add(fmt.Sprintf("%s %s, %d", text, dn, v), func(a *Asm) { a.OpImm(op, w, d, v) })
				add(fmt.Sprintf("%s %s, %s ptr %s", text, dn, size, mt), func(a *Asm) { a.OpMem(op, w, d, m) })
				add(fmt.Sprintf("%s %s ptr %s, %s", text, size, mt, sn), func(a *Asm) { a.OpTo(op, w, m, s) })
				add(fmt.Sprintf("%s %s ptr %s, %d", text, size, mt, int8(v)), func(a *Asm) { a.OpMemImm(op, w, m, int8(v)) })
			}
			add(fmt.Sprintf("xadd %s ptr %s, %s", size, mt, sn), func(a *Asm) { a.XAdd(w, m, s) })
			add(fmt.Sprintf("xchg %s ptr %s, %s", size, mt, sn), func(a *Asm) { a.XChg(w, m, s) })
			add(fmt.Sprintf("cmpxchg %s ptr %s, %s", size, mt, sn), func(a *Asm) { a.CmpXChg(w, m, s) })
			add(fmt.Sprintf("test %s, %s", dn, sn), func(a *Asm) { a.Test(w, d, s) })
			add(fmt.Sprintf("imul %s, %s", dn, sn), func(a *Asm) { a.IMul(w, d, s) })
			for op, text := range map[Unary]string{NOT: "not", NEG: "neg", MUL: "mul", IMUL: "imul", DIV: "div", IDIV: "idiv"} {
				add(fmt.Sprintf("%s %s", text, dn), func(a *Asm) { a.Un(op, w, d) })
			}
			for kind, text := range map[byte]string{4: "shl", 5: "shr", 7: "sar"} {
				by := uint8(1 + r.IntN(31))
				add(fmt.Sprintf("%s %s, %d", text, dn, by), func(a *Asm) { a.ShiftImm(kind, w, d, by) })
			}
			for op, text := range map[Count]string{POPCNT: "popcnt", TZCNT: "tzcnt", LZCNT: "lzcnt"} {
				add(fmt.Sprintf("%s %s, %s", text, dn, sn), func(a *Asm) { a.Cnt(op, w, d, s) })
			}
			for c, text := range conds {
				add(fmt.Sprintf("cmov%s %s, %s", text, dn, sn), func(a *Asm) { a.CMov(c, w, d, s) })
			}
			add(fmt.Sprintf("bzhi %s, %s, %s", dn, sn, name(w, n)), func(a *Asm) { a.BZHI(w, d, s, n) })
			add(fmt.Sprintf("cvtsi2ss xmm%d, %s", d, sn), func(a *Asm) { a.CvtToFloat(w, false, d, s) })
			add(fmt.Sprintf("cvtsi2sd xmm%d, %s", d, sn), func(a *Asm) { a.CvtToFloat(w, true, d, s) })
			add(fmt.Sprintf("cvttss2si %s, xmm%d", dn, s), func(a *Asm) { a.CvtToInt(w, false, d, s) })
			add(fmt.Sprintf("cvttsd2si %s, xmm%d", dn, s), func(a *Asm) { a.CvtToInt(w, true, d, s) })
		}
		for _, w := range []Width{W8, W16, W32, W64} {
			add(fmt.Sprintf("mov %s ptr %s, %s", sizes[int(w)], mt, name(w, s)), func(a *Asm) { a.Store(w, m, s) })
		}
		add(fmt.Sprintf("movzx %s, byte ptr %s", name(W32, d), mt), func(a *Asm) { a.Load(W8, d, m) })
		add(fmt.Sprintf("movzx %s, word ptr %s", name(W32, d), mt), func(a *Asm) { a.Load(W16, d, m) })
		add(fmt.Sprintf("movsx %s, byte ptr %s", name(W32, d), mt), func(a *Asm) { a.LoadSigned(W8, d, m) })
		add(fmt.Sprintf("movsx %s, word ptr %s", name(W32, d), mt), func(a *Asm) { a.LoadSigned(W16, d, m) })
		add(fmt.Sprintf("movsxd %s, dword ptr %s", name(W64, d), mt), func(a *Asm) { a.LoadSigned(W32, d, m) })
		add(fmt.Sprintf("lea %s, %s", name(W64, d), mt), func(a *Asm) { a.Lea(d, m) })
		add(fmt.Sprintf("mov %s, %d", name(W32, d), uint32(v)), func(a *Asm) { a.MovImm(d, uint64(uint32(v))) })
		big := r.Uint64() | 1<<62
		add(fmt.Sprintf("movabs %s, %d", name(W64, d), int64(big)), func(a *Asm) { a.MovImm(d, big) })
		add(fmt.Sprintf("push %s", name(W64, d)), func(a *Asm) { a.Push(d) })
		add(fmt.Sprintf("pop %s", name(W64, d)), func(a *Asm) { a.Pop(d) })
		add(fmt.Sprintf("call qword ptr %s", mt), func(a *Asm) { a.Call(m) })
		add(fmt.Sprintf("prefetcht0 byte ptr %s", mt), func(a *Asm) { a.Prefetch(m) })
		add(fmt.Sprintf("prefetcht1 byte ptr %s", mt), func(a *Asm) { a.PrefetchL2(m) })
		add(fmt.Sprintf("prefetchw byte ptr %s", mt), func(a *Asm) { a.PrefetchW(m) })
		add(fmt.Sprintf("ldtilecfg %s", mt), func(a *Asm) { a.TileConfig(m) })
		add(fmt.Sprintf("tilezero tmm%d", d&7), func(a *Asm) { a.TileZero(d & 7) })
	}
	add("cdq", func(a *Asm) { a.SignRAX(W32) })
	add("cqo", func(a *Asm) { a.SignRAX(W64) })
	add("ret", (*Asm).Ret)
	add("lock", (*Asm).Lock)
	add("vzeroupper", (*Asm).VZeroUpper)
	add("sfence", (*Asm).SFence)
	add("tilerelease", (*Asm).TileRelease)
	check(t, lines)
}

// Jumps and addresses relative to the code, forward and back.
func TestLabels(t *testing.T) {
	a := Asm{Has: AVX512}
	back, data := a.NewLabel(), a.NewLabel()
	a.Bind(back)
	a.Jmp(back)
	a.Jcc(NE, data)
	a.Emit(CmpPS, Inst{VL: 64, D: 1, A: 2, IsMem: true, Mem: Mem{Label: data, Disp: 8}, Imm: 3})
	a.Load(W64, RAX, Mem{Label: data})
	n := len(a.Code)
	a.Bind(data)
	require.NoError(t, a.Finish())
	text := "jmp $" // to itself
	require.Equal(t, []byte{0xe9, 0xfb, 0xff, 0xff, 0xff}, a.Code[:5], text)
	require.Equal(t, byte(n-11), a.Code[7])
	// vcmpps: 62 P0 P1 P2 C2 modrm disp32 imm
	require.Equal(t, byte(n-22+8), a.Code[17], "% x", a.Code)
	require.Equal(t, byte(0), a.Code[n-4])

	var open Asm
	open.Jmp(open.NewLabel())
	require.Error(t, open.Finish())
}
