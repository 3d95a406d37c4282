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
	text string
	code []byte
}

var (
	names64 = []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	names32 = []string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"}
	names16 = []string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"}
	names8  = []string{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"}
)

func name(w Width, r Reg) string {
	return map[Width][]string{W8: names8, W16: names16, W32: names32, W64: names64}[w][r]
}

var sizes = map[int]string{1: "byte", 2: "word", 4: "dword", 8: "qword", 16: "xmmword", 32: "ymmword", 64: "zmmword"}

func vector(vl int, r Reg) string {
	return fmt.Sprintf("%cmm%d", map[int]byte{16: 'x', 32: 'y', 64: 'z'}[max(vl, 16)], r)
}

// randomMem is a memory operand and its text between brackets.
func randomMem(r *rand.Rand, vsib bool, vl int) (Mem, string) {
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
	text := names64[m.Base]
	if vsib {
		m.Index = Reg(r.IntN(16))
		if vl < 0 { // EVEX
			m.Index, vl = Reg(r.IntN(32)), -vl
		}
		m.Scale = 1 << r.IntN(4)
		text += fmt.Sprintf("+%s*%d", vector(vl, m.Index), m.Scale)
	} else if r.IntN(2) == 0 {
		m.Index = Reg(r.IntN(16))
		if m.Index == RSP {
			m.Index = RDI
		}
		m.Scale = 1 << r.IntN(4)
		text += fmt.Sprintf("+%s*%d", names64[m.Index], m.Scale)
	}
	return m, fmt.Sprintf("[%s%+d]", text, m.Disp)
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
	pick := func(kind byte) (Reg, string) {
		n := map[byte]int{'v': in.VL, 'h': in.VL / 2, 'q': in.VL / 4, 'o': in.VL / 8, 'x': 16}[kind]
		switch kind {
		case 'k':
			k := Reg(r.IntN(8))
			return k, fmt.Sprintf("k%d", k)
		case 't':
			m := Reg(r.IntN(8))
			return m, fmt.Sprintf("tmm%d", m)
		case 'r', 'R':
			g := Reg(r.IntN(16))
			return g, name(map[byte]Width{'r': W32, 'R': W64}[kind], g)
		}
		v := Reg(r.IntN(regs))
		return v, vector(n, v)
	}
	var texts []string
	var t string
	last := len(f.Ops) - 1
	if f.Is4 {
		last--
	}
	in.D, t = pick(f.Ops[0])
	texts = append(texts, t)
	if f.Layout == RVM || f.Layout == MVR || f.Layout == RMV {
		at := 1
		if f.Layout == RMV {
			at = last
		}
		in.A, t = pick(f.Ops[at])
		texts = append(texts, t)
	}
	kind := f.Ops[last]
	if f.Layout == RMV {
		kind = f.Ops[1]
	}
	mem := ""
	if f.MemOK && (evex || f.VMem) && (!f.RegOK || r.IntN(2) == 0) {
		in.IsMem = true
		vl := in.VL
		if f.VSIB {
			vl = map[byte]int{'v': in.VL, 'h': max(in.VL/2, 16)}[kind]
			if evex {
				vl = -vl
			}
		}
		in.Mem, mem = randomMem(r, f.VSIB, vl)
		if f.Index && in.Mem.Index == None {
			return nil
		}
		n := map[byte]int{'v': in.VL, 'h': in.VL / 2, 'q': in.VL / 4, 'o': in.VL / 8, 'x': 16, 'k': 2, 'r': 4, 'R': 8}[kind]
		if f.Tuple != full && f.Tuple != half && f.Tuple != quarter && f.Tuple != eighth {
			n = f.scale(&in)
		}
		size := sizes[n]
		if f.VSIB {
			size = sizes[map[tuple]int{one4: 4, one8: 8}[f.Tuple]]
		}
		if evex && f.Elem != 0 && r.IntN(2) == 0 {
			in.Broadcast = true
			count := in.VL / int(f.Elem)
			if f.Tuple == half {
				count /= 2
			}
			t = fmt.Sprintf("%s ptr %s{1to%d}", sizes[int(f.Elem)], mem, count)
		} else {
			t = size + " ptr " + mem
			if f.Index {
				t = mem
			}
		}
	} else {
		if !f.RegOK {
			return nil
		}
		in.B, t = pick(kind)
	}
	switch f.Layout {
	case MR:
		texts = []string{t, texts[0]}
	case MVR:
		texts = []string{t, texts[1], texts[0]}
	case RMV:
		texts = []string{texts[0], t, texts[1]}
		if f.Ops[0] == 't' && (in.D == in.A || in.D == in.B || in.A == in.B) {
			return nil // tiles have to differ
		}
	default:
		texts = append(texts, t)
	}
	if f.Is4 {
		in.C, t = pick('v')
		texts = append(texts, t)
	}
	if f.VSIB && (in.D == in.Mem.Index || f.Layout == RMV && (in.D == in.A || in.A == in.Mem.Index)) {
		return nil // no such instruction
	}
	if evex && (f.VSIB || r.IntN(2) == 0) {
		in.K = Reg(1 + r.IntN(7))
		mask := fmt.Sprintf("{k%d}", in.K)
		storesMem := in.IsMem && (f.Layout == MR)
		if !storesMem && !f.VSIB && f.Ops[0] != 'k' && r.IntN(2) == 0 {
			in.Zero = true
			mask += "{z}"
		}
		switch {
		case strings.ContainsAny(f.Ops, "rR"), f.Ops == "vk", f.Name == "vmovntps", f.Ops[0] == 'x':
			if f.Name == "vpbroadcastd" || f.Name == "vpbroadcastq" {
				texts[0] += mask
				break
			}
			in.K, in.Zero = 0, false
		default:
			texts[0] += mask
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
		texts = append(texts, fmt.Sprint(in.Imm))
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
	return &line{prefix + f.Name + " " + strings.Join(texts, ", "), code}
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

// Every row of the table, in each of its encodings, with random operands.
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

func TestGeneral(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var lines []line
	add := func(text string, emit func(a *Asm)) {
		var a Asm
		emit(&a)
		lines = append(lines, line{text, a.Code})
	}
	alu := map[ALU]string{ADD: "add", OR: "or", AND: "and", SUB: "sub", XOR: "xor", CMP: "cmp"}
	conds := map[Cond]string{O: "o", B: "b", AE: "ae", E: "e", NE: "ne", BE: "be", A: "a", S: "s", NS: "ns", L: "l", GE: "ge", LE: "le", G: "g"}
	for range 150 {
		d, s, n := Reg(r.IntN(16)), Reg(r.IntN(16)), Reg(r.IntN(16))
		m, mt := randomMem(r, false, 0)
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
		add(fmt.Sprintf("ldtilecfg %s", mt), func(a *Asm) { a.TileConfig(m) })
		add(fmt.Sprintf("tilezero tmm%d", d&7), func(a *Asm) { a.TileZero(d & 7) })
	}
	add("cdq", func(a *Asm) { a.SignRAX(W32) })
	add("cqo", func(a *Asm) { a.SignRAX(W64) })
	add("ret", (*Asm).Ret)
	add("vzeroupper", (*Asm).VZeroUpper)
	add("sfence", (*Asm).SFence)
	add("tilerelease", (*Asm).TileRelease)
	check(t, lines)
}

// Jumps and addresses relative to the code, forward and back.
func TestLabels(t *testing.T) {
	var a Asm
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
