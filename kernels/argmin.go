package kernels

// Argmin is output[r] = the place of the smallest element of row r, as Argmax
// finds the largest.
var Argmin = rowPlace("argmin", "output[r] = the place in row r of its smallest element, the first of equal ones, or of the first NaN", "min")
