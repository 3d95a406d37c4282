package kernels

// VectorLessEqual is c = a ≤ b, a mask; false where either is NaN.
var VectorLessEqual = comparison("vector_less_equal", "le", "c = a ≤ b, a mask; false where either is NaN.")
