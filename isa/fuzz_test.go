package isa_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// checkText puts any text through the assembler. What assembles must survive
// its round trips if it is well formed; the verifier must cope with it.
func checkText(t *testing.T, text string) {
	p, err := isa.Assemble("fuzz.atlas", text)
	if err != nil {
		var list isa.ErrorList
		if !errors.As(err, &list) || len(list) == 0 || len(list) > isa.MaxErrors {
			t.Fatalf("error of type %T: %v\n%s", err, err, text)
		}
		for _, e := range list {
			if e.Line < 1 || e.Col < 1 || e.Width < 1 || e.Msg == "" || e.File != "fuzz.atlas" || e.Error() == "" {
				t.Fatalf("incomplete error %+v\n%s", e, text)
			}
		}
		return
	}
	if p.Check() == nil {
		if err := roundTrip(p); err != nil {
			t.Fatalf("%v\nfrom\n%s", err, text)
		}
	}
	_, _ = isa.Verify(p)
}

// checkBytes puts any bytes through the decoder, once as they are and once
// with a valid header and checksum, which random bytes never have.
func checkBytes(t *testing.T, data []byte) {
	checkEncoding(t, data)
	const header = "ATLAS\x01\x00"
	mended := append([]byte(header), bytes.TrimPrefix(data, []byte(header))...)
	sum := crc32.Checksum(mended, crc32.MakeTable(crc32.Castagnoli))
	checkEncoding(t, append(mended, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)))
}

func checkEncoding(t *testing.T, data []byte) {
	p, err := isa.Decode(data)
	if err != nil {
		var e *isa.DecodeError
		if !errors.As(err, &e) || e.Msg == "" || e.Offset > len(data) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		return
	}
	if again := isa.Encode(p); !bytes.Equal(again, data) {
		t.Fatalf("encoded again, it has other bytes:\n%x\nbecame\n%x", data, again)
	}
	if err := roundTrip(p); err != nil {
		t.Fatal(err)
	}
	_, _ = isa.Verify(p)
}

// samples returns texts of programs to start from. They are short, since the
// fuzzer makes what it finds in them as small as it can, step by step.
func samples(t testing.TB) []string {
	tour, err := os.ReadFile("testdata/asm/tour.atlas")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(tour)}
	for _, in := range []string{"ldg.f32 x, a[index]", "stg.f32 0x1p-3, a[r3 - 4]", "ldg.u8 x, phi(5, 3, 16)", "ldc.i16 x, t[n]", "set.ltu.u32 p, 1, r9",
		"and.pred p, q, !p3", "bra l, !p", "atom_cas.u64 x, @h[r + 8], 1, y", "mem_fence block", "sreg x, n"} {
		texts = append(texts, "program s\nslot a f32\ndata t i16 { 1, -2 }\nl: "+in+"\n")
	}
	return texts
}

func FuzzAssemble(f *testing.F) {
	for _, text := range samples(f) {
		f.Add(text)
	}
	f.Fuzz(checkText)
}

func FuzzDecode(f *testing.F) {
	for _, text := range samples(f) {
		p, err := isa.Assemble("sample", text)
		if err != nil {
			f.Fatal(err)
		}
		data := isa.Encode(p)
		f.Add(data[:len(data)-4])
	}
	f.Fuzz(checkBytes)
}

// mutate changes data in a few places: bits, bytes, pieces moved, doubled or lost.
func mutate(s isatest.Source, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + s.Intn(4) {
		if len(data) == 0 {
			return data
		}
		at := s.Intn(len(data))
		to := min(len(data), at+1+s.Intn(8))
		switch s.Intn(6) {
		case 0:
			data[at] ^= 1 << s.Intn(8)
		case 1:
			data[at] = byte(s.Uint64())
		case 2:
			data = append(data[:at], data[to:]...)
		case 3:
			data = append(data[:to:to], data[at:]...)
		case 4:
			copy(data[s.Intn(len(data)):], bytes.Clone(data[at:to]))
		case 5:
			data = data[:at]
		}
	}
	return data
}

// hostile is how many inputs of each kind the tests below try.
func hostile() int { return brief.Or(50_000, 2000) }

func TestRandomBytes(t *testing.T) {
	t.Parallel()
	s := isatest.FromSeed(2)
	for range hostile() {
		data := make([]byte, s.Intn(200))
		for i := range data {
			// Small numbers are more often counts, types and kinds.
			data[i] = byte(s.Uint64() >> uint(s.Intn(8)))
		}
		checkBytes(t, data)
		checkText(t, string(data))
	}
}

func TestMutatedPrograms(t *testing.T) {
	brief.Alone(t)
	t.Parallel()
	s := isatest.FromSeed(3)
	var texts, encodings [][]byte
	for range 200 {
		p := isatest.Program(s, 8)
		texts = append(texts, []byte(isa.Disassemble(p)))
		data := isa.Encode(p)
		encodings = append(encodings, data[:len(data)-4])
	}
	for i := range hostile() {
		checkText(t, string(mutate(s, texts[i%len(texts)])))
		checkBytes(t, mutate(s, encodings[i%len(encodings)]))
	}
}

// The fixed costs of a short input must not grow with the counts it claims.
func TestDecodeMemoryIsBounded(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0x7f}
	for cut := range 12 {
		data := append([]byte("ATLAS\x01\x00"), make([]byte, cut)...)
		data = append(data, huge...)
		sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		data = append(data, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := isa.Decode(data); err == nil {
			t.Fatal("decoded")
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
			t.Errorf("claiming a huge count after %d bytes takes %d bytes of memory", cut, took)
		}
	}
}
