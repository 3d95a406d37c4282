package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// The corpus: programs with inputs and the outputs they must give, as .atlas
// files. The expected values come from outside our evaluators; corpus/gen.py
// says from where, and writes the files.
//
// A file is one program in which $T stands for a type, and runs in comment
// lines that start with ";:". A run begins with a header,
//
//	;: run T=f32 [S=i16] [ulp=1] [fault=access] [fuel=9] [grid=2] [block=33] [shape=3x5]
//
// and goes on with one entry for each slot or parameter: its name, "=" if it is
// an expected output rather than an input, and its cells in hexadecimal;
// the output "residue" is the launch's residues. Further lines that start with
// ";:  " continue an entry. T and S are put in place of $T and $S. Without
// grid, block and shape the program is element-wise and the suite chooses the
// index spaces and views. An output that is not also an input starts as the
// guard pattern.

//go:embed corpus/*.atlas
var corpusFiles embed.FS

// Case is one run of a program of the corpus.
type Case struct {
	Name        string
	Program     *isa.Verified
	ULP         uint64 // how far a float output may be from the expected one
	Fault       isa.FaultKind
	Asked       *int64 // where a stray access went; nil: not compared, as where a device does not tell
	Grid, Block uint32 // 0: element-wise
	Shape       []int64
	Fuel        uint64
	In, Out     map[string][]uint64 // by slot or parameter name
}

// Corpus reads the whole corpus.
func Corpus() ([]*Case, error) {
	names, err := fs.Glob(corpusFiles, "corpus/*.atlas")
	if err != nil {
		return nil, err
	}
	var all []*Case
	for _, name := range names {
		text, err := corpusFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		cases, err := parseFile(path.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

func parseFile(name, text string) ([]*Case, error) {
	var cases []*Case
	var into map[string][]uint64 // where the entry at hand goes
	var key string
	for i, line := range strings.Split(text, "\n") {
		rest, ok := strings.CutPrefix(line, ";:")
		if !ok {
			continue
		}
		fail := func(format string, args ...any) ([]*Case, error) {
			return nil, fmt.Errorf("%s:%d: %s", name, i+1, fmt.Sprintf(format, args...))
		}
		fields := strings.Fields(rest)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == "run":
			c, err := parseHeader(name, text, fields[1:])
			if err != nil {
				return fail("%v", err)
			}
			cases, into = append(cases, c), nil
			continue
		case len(cases) == 0:
			return fail("values before the first run")
		case !strings.HasPrefix(rest, "  "):
			c := cases[len(cases)-1]
			key, into, fields = fields[0], c.In, fields[1:]
			if len(fields) > 0 && fields[0] == "=" {
				into, fields = c.Out, fields[1:]
			}
			if _, twice := into[key]; twice {
				return fail("%s stands twice", key)
			}
			into[key] = []uint64{}
		}
		if into == nil {
			return fail("values without a name")
		}
		for _, f := range fields {
			v, err := strconv.ParseUint(f, 16, 64)
			if err != nil {
				return fail("%q is not a cell in hexadecimal", f)
			}
			into[key] = append(into[key], v)
		}
	}
	return cases, nil
}

var faultsByName = map[string]isa.FaultKind{
	"access": isa.FaultAccess, "divide": isa.FaultDivide, "fuel": isa.FaultFuel,
	"class": isa.FaultClass, "handle": isa.FaultHandle,
}

func parseHeader(name, text string, fields []string) (*Case, error) {
	c := &Case{In: map[string][]uint64{}, Out: map[string][]uint64{}}
	types := map[string]string{}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		n, notNumber := strconv.ParseUint(value, 10, 32)
		var err error
		switch key {
		case "T", "S":
			types["$"+key] = value
		case "fault":
			var ok bool
			if c.Fault, ok = faultsByName[value]; !ok {
				err = fmt.Errorf("no such fault: %s", value)
			}
		case "ulp":
			c.ULP, err = n, notNumber
		case "grid":
			c.Grid, err = uint32(n), notNumber
		case "block":
			c.Block, err = uint32(n), notNumber
		case "fuel":
			c.Fuel, err = n, notNumber
		case "shape":
			for _, d := range strings.Split(value, "x") {
				n, e := strconv.ParseInt(d, 10, 64)
				if e != nil {
					err = e
				}
				c.Shape = append(c.Shape, n)
			}
		default:
			err = fmt.Errorf("unknown word in a run's header: %s", f)
		}
		if err != nil {
			return nil, err
		}
	}
	for from, to := range types {
		text = strings.ReplaceAll(text, from, to)
	}
	p, err := isa.Assemble(name, text)
	if err != nil {
		return nil, err
	}
	if c.Program, err = isa.Verify(p); err != nil {
		return nil, err
	}
	c.Name = strings.TrimSuffix(name, ".atlas") + "/" + types["$T"] + types["$S"]
	return c, nil
}
