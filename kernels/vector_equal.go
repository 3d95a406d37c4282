package kernels

// VectorEqual is c = a = b, a mask; false where either is NaN; −0 = +0.
var VectorEqual = comparison("vector_equal", "eq", "c = a = b, a mask; false where either is NaN; −0 = +0.")
