//go:build !amd64 && !arm64

package strips

// Elsewhere the twins do.
var (
	addF32      = add[float32]
	subF32      = sub[float32]
	mulF32      = mul[float32]
	divF32      = divFloat[float32]
	maxF32      = maximum[float32]
	minF32      = minimum[float32]
	fmaF32Lanes = fma32
	fmaF64Lanes = fma64
	fmaF32A     = fma32a
	fmaF32C     = fma32c
)
