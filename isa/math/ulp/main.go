// Command ulp measures the error of the expansions in isa/math and records it
// in docs/math-errors.md and in the programs' comments.
//
//	go run ./isa/math/ulp -fn exp -type f32 -all
//	go run ./isa/math/ulp -sample 1000000
//
// Without -fn and -type it measures every function and type. With -all it
// takes all arguments where that can be done (a function of one argument in
// 32 bits or fewer), and a large sample where it can't; with -sample, that
// many. Rows of the table that were not measured stay as they are, and so does
// one about the same program that rests on more arguments.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hologram-project/hologram/isa/math/accuracy"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ulp:", err)
		os.Exit(1)
	}
}

// run measures what args ask for, and tells out of it.
func run(args []string, out *os.File) error {
	flags := flag.NewFlagSet("ulp", flag.ContinueOnError)
	fn := flags.String("fn", "", "measure this function alone, such as exp")
	ty := flags.String("type", "", "measure this type alone: f32, f64, f16 or bf16")
	sample := flags.Uint64("sample", 1_000_000, "number of arguments to measure on")
	all := flags.Bool("all", false, "measure on all arguments, or on the largest sample")
	root := flags.String("root", ".", "the repository whose records to update; empty for none")
	workers := flags.Int("j", runtime.NumCPU(), "number of threads")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *workers < 1 || *sample < 1 {
		return fmt.Errorf("-j %d, -sample %d: both must be positive", *workers, *sample)
	}
	measured, bad := 0, []string{}
	for _, c := range accuracy.Cases() {
		name, typeName, _ := strings.Cut(c.String(), ".")
		if *fn != "" && *fn != name || *ty != "" && *ty != typeName {
			continue
		}
		measured++
		n := *sample
		if *all {
			n, _ = c.Full()
		}
		start := time.Now()
		r, err := accuracy.Measure(c, n, *workers, progress(out, c, n))
		if err != nil {
			return fmt.Errorf("%s: %v", c, err)
		}
		row := newRow(r)
		fmt.Fprintf(out, "\r%s   %.0f s\n", row.line(), time.Since(start).Seconds())
		if r.Max > c.Bound() {
			bad = append(bad, c.String())
		}
		if *root != "" {
			if err := record(*root, row); err != nil {
				return err
			}
		}
	}
	if measured == 0 {
		return fmt.Errorf("no expansion is called %q in type %q", *fn, *ty)
	}
	if len(bad) > 0 {
		return fmt.Errorf("beyond their bounds: %s", strings.Join(bad, ", "))
	}
	return nil
}

// record writes the row into the table and the program's comment.
func record(root string, r row) error {
	changed, err := update(filepath.Join(root, "docs", "math-errors.md"), r)
	if err != nil || !changed {
		return err
	}
	return quote(filepath.Join(root, "isa", "math"), r)
}

// progress shows how far a long measurement is, where someone looks on.
func progress(out *os.File, c accuracy.Case, n uint64) func(uint64) {
	if st, err := out.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(done uint64) { fmt.Fprintf(out, "\r%s %3d%%", c, 100*done/n) }
}
