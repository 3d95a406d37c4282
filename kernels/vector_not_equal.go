package kernels

// VectorNotEqual is c = a ≠ b, a mask; true where either is NaN.
var VectorNotEqual = comparison("vector_not_equal", "ne", "c = a ≠ b, a mask; true where either is NaN.")
