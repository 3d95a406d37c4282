package kernels

// CrossEntropyLoss is output[0] = −Σ target·ln(pred) / n, n counting all
// elements: the mean over the rows of a matrix of c columns, which others call
// by this name, is c times that. A term of weight 0 counts 0, as pred is
// taken for 1 there; nothing is clamped.
var CrossEntropyLoss = loss("cross_entropy_loss",
	"output[0] = −Σ target · ln pred / n, n counting all elements; for the mean over rows multiply by the number of columns. "+
		"Where target is 0 the term is 0.", `
    set.eq.{{.A}} none, y, 0
    sel.{{.A}} x, none, 1, x
    log.{{.A}} l, x
    mul.{{.A}} z, y, l`, true)
