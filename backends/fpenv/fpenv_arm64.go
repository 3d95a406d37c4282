package fpenv

// standard is FPCR's reset value: round to nearest, no flush to zero, no
// default NaN, no traps.
const standard = 0

func control() uint64
func setControl(uint64)
