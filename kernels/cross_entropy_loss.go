package kernels

// CrossEntropyLoss is output[0] = −Σ target·ln(pred) / n, n counting all
// elements: the mean over the rows of a matrix of c columns, which others call
// by this name, is c times that. A term of weight 0 counts 0, whatever pred is;
// nothing is clamped.
var CrossEntropyLoss = loss("cross_entropy_loss",
	"output[0] = −Σ target · ln pred / n, n counting all elements; for the mean over rows multiply by the number of columns. "+
		"Where target is 0 the term is 0.", `
    log.{{.A}} l, x
    mul.{{.A}} z, y, l
    set.eq.{{.A}} none, y, 0
    sel.{{.A}} z, none, 0, z`, true)
