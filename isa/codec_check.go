package isa

import "fmt"

// Check reports whether the program is well formed, so that it has a text and
// a binary form: it keeps the rules of Verify about declarations and single
// instructions, and its names and labels are such as the text form can say.
// That is less than Verify asks for. The error is a *VerifyError.
func (p *Program) Check() error {
	v := &verifier{p: p}
	for _, check := range []func() error{v.checkDeclarations, v.checkInstructions, v.checkSpelling} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkSpelling finds what would read otherwise in the text form than it is meant.
func (v *verifier) checkSpelling() error {
	globals := map[string]string{}
	global := func(kind, name string) error {
		if why, ok := reservedNames[name]; ok {
			return v.failf("name", -1, "%s name %s is reserved: %s", kind, name, why)
		}
		if other, ok := globals[name]; ok {
			return v.failf("name", -1, "%s is the name of a %s and of a %s", name, other, kind)
		}
		globals[name] = kind
		return nil
	}
	for _, s := range v.p.Slots {
		if err := global("slot", s.Name); err != nil {
			return err
		}
	}
	for _, s := range v.p.Params {
		if err := global("parameter", s.Name); err != nil {
			return err
		}
	}
	for _, d := range v.p.Data {
		if err := global("table", d.Name); err != nil {
			return err
		}
	}
	for _, name := range append(v.p.Debug.Regs[:], v.p.Debug.Preds[:]...) {
		if why := notRegisterName(name); name != "" && why != "" {
			return v.failf("name", -1, "register name %s %s", name, why)
		}
	}
	for i, l := range v.p.Labels {
		if i > 0 && l.At < v.p.Labels[i-1].At {
			return v.failf("label", -1, "label %s stands before label %s, but comes after it in the list", l.Name, v.p.Labels[i-1].Name)
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
