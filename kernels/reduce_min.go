package kernels

import "fmt"

// ReduceMin is output[r] = min input[r, :] over each row of a rows × cols
// matrix; NaN if the row holds one; −0 < +0. A row must have an element.
var ReduceMin = ofBools(rowReduction("reduce_min", "output[r] = the smallest element of row r of input", "min", false))

func emptyError(op string) error {
	return fmt.Errorf("%s of no elements has no value: expected at least 1 element", op)
}
