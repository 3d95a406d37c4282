package gemm

// machine is the set of instructions to make code for.
type machine struct {
	evex  bool
	bytes int // of a vector
}

func (m machine) registers() int {
	if m.evex {
		return 32
	}
	return 16
}

// spare is how many registers a micro-kernel needs beside sums and a row of B.
func (m machine) spare(t number) int {
	n := 2
	if !t.float() {
		n++ // a product
		if m.evex {
			n++
		}
	}
	return n
}

// lanes is how many numbers a vector has.
func (m machine) lanes(t number) int { return m.bytes / int(t.size()) }

// The largest tiles.
const (
	maxRows = 28
	maxCols = 8
)

// widest is how many vectors wide a tile of so many rows may be.
func (m machine) widest(t number, rows int) int {
	return min((m.registers()-m.spare(t))/(rows+1), maxCols)
}

// tallest is how many rows a tile of so many vectors may have.
func (m machine) tallest(t number, cols int) int64 {
	return int64(min((m.registers()-m.spare(t)-cols)/cols, maxRows))
}

// widestByColumns is how many vectors wide such a tile of so many rows may be: a square of less than that has
// registers beside the sums, and there are two more.
func (m machine) widestByColumns(t number, rows int64) int64 {
	return (int64(m.registers()) - 2 - max(int64(m.lanes(t))-rows, 0)) / rows
}
