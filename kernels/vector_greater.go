package kernels

// VectorGreater is c = a > b, a mask; false where either is NaN.
var VectorGreater = comparison("vector_greater", "gt", "c = a > b, a mask; false where either is NaN.")
