package analysis

// Class says what kind of program it is.
type Class struct{}

func (a *Analysis) classify() {}
