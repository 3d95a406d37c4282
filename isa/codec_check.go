package isa

import "fmt"

// Check reports whether the program is well formed, so that it has a text and
// a binary form: it keeps the rules of Verify about declarations and single
// instructions. The error is a *VerifyError.
func (p *Program) Check() error {
	v := &verifier{p: p}
	for _, check := range []func() error{v.checkDeclarations, v.checkInstructions} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// notRegisterName says why a name cannot be that of a register or predicate, or "".
func notRegisterName(name string) string {
	if why, ok := reservedNames[name]; ok {
		return "is reserved: " + why
	}
	for _, prefix := range []byte("rp") {
		if _, ok := numberedName(name, prefix, 1); ok {
			return fmt.Sprintf("is spelled like a number: %c and digits", prefix)
		}
	}
	return ""
}
