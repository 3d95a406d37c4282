package kernels

// ReduceMax is output[r] = max input[r, :] over each row of a rows × cols
// matrix; NaN if the row holds one; −0 < +0. A row must have an element.
var ReduceMax = ofBools(rowReduction("reduce_max", "output[r] = the largest element of row r of input", "max", false))
