package kernels

// All lists the operations. An operation's place is its number in the C ABI:
// new ones go to the end.
var All = []*Op{
	VectorAdd, VectorSub, VectorMul, VectorDiv, VectorMin, VectorMax,
	VectorAbs, VectorNeg, VectorRelu, VectorClip, ScalarAdd, ScalarMul,
	Sigmoid, Tanh, Gelu, Softmax,
	ReduceSum, ReduceMin, ReduceMax,
	MSELoss, CrossEntropyLoss, BinaryCrossEntropyLoss,
	Gemm, Matvec,
	VectorMad, VectorSqrt, VectorExp, VectorLog, Fill, Copy,
	Argmin, Argmax,
	ReduceProd, Cumsum,
	VectorEqual, VectorNotEqual, VectorLess, VectorLessEqual, VectorGreater, VectorGreaterEqual, Where,
	LogSoftmax, LogSoftmaxGradient, SoftmaxGradient, LayerNorm, LayerNormGradient, RMSNorm, RMSNormGradient,
	NLL, NLLGradient, Embedding, EmbeddingGradient,
	LayerNormInputGradient, LayerNormParameterGradients,
	CrossEntropyGradient, LogSumExp, CrossEntropy,
}

func init() {
	for i, op := range All {
		op.number = i
	}
}

// Number is the operation's place in All.
func (op *Op) Number() int { return op.number }
