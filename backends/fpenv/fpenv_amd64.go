package fpenv

// standard is MXCSR's reset value but for the sticky flags that control leaves
// out: all exceptions masked, round to nearest, no flush to zero.
const standard = 0x1f80

// flags are the sticky exception flags, which are no part of the state.
const flags = 0x3f

func mxcsr() uint32
func setMXCSR(uint32)

func control() uint64     { return uint64(mxcsr() &^ flags) }
func setControl(c uint64) { setMXCSR(uint32(c)) }
