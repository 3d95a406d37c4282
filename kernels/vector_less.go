package kernels

// VectorLess is c = a < b, a mask; false where either is NaN.
var VectorLess = comparison("vector_less", "lt", "c = a < b, a mask; false where either is NaN.")
