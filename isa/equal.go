package isa

import (
	"bytes"
	"crypto/sha256"
)

// Equal reports whether p and q are the same program as written, names
// included. Where they were read from (Debug.File, Lines, Cols, Text) plays
// no part.
func (p *Program) Equal(q *Program) bool {
	return bytes.Equal(Encode(p), Encode(q))
}

// Hash returns the SHA-256 of the binary form. It names the program as
// written; the canonical form's hash names what it computes.
func (p *Program) Hash() [32]byte {
	return sha256.Sum256(Encode(p))
}
