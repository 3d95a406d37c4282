package kernels

// ReduceProd is output[r] = Π input[r, :], the product of each row of a matrix, in
// the order reduce.go states of sums. Where output has a wider type the product
// is kept in it. Integers wrap. A row of no elements gives 1.
var ReduceProd = rowReduction("reduce_prod", "output[r] = the product of row r of input", "mul", true)
