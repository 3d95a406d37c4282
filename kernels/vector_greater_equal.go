package kernels

// VectorGreaterEqual is c = a ≥ b, a mask; false where either is NaN.
var VectorGreaterEqual = comparison("vector_greater_equal", "ge", "c = a ≥ b, a mask; false where either is NaN.")
