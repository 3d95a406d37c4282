package isa

// Convert converts a cell of type from to one of type t, as CVT does.
func Convert(t, from Type, cell uint64) uint64 {
	out, _ := table[CVT].Eval(Form{Type: t, From: from}, cell, 0, 0)
	return out
}
