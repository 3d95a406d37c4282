package strips

// The hottest loops, which some architectures have hand-written versions of.
var (
	addF32      = add[float32]
	subF32      = sub[float32]
	mulF32      = mul[float32]
	divF32      = divFloat[float32]
	fmaF32Lanes = fma32
)
