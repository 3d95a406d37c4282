package kernels

// CrossEntropy is the NLL of LogSoftmax(scores), of which it makes but the targets'
// elements: output[r] = −((scores[r, target[r]] − most[r]) − log[r]) · weight[target[r]],
// most and log those that LogSumExp finds, and weights[r] the weight itself; where the
// target is ignored both are 0. f16 and bf16 are computed in f32, and rounded where output
// is of their type. A target that is no class and not ignored is a stray access.
var CrossEntropy = gathering("cross_entropy",
	"output[r] = −(scores[r, target[r]] − most[r] − log[r]) · weight[target[r]], most and log by log_sum_exp, and weights[r] the weight; 0 where target[r] = ignored. A target that is no class is a fault",
	[]Operand{{Name: "scores", Reads: true}, {Name: "target", Reads: true, Kind: Index}, {Name: "weight", Reads: true},
		{Name: "most", Reads: true, Kind: Sum}, {Name: "log", Reads: true, Kind: Sum},
		{Name: "weights", Writes: true, Kind: Sum}, {Name: "output", Writes: true, Kind: Sum}},
	[]Scalar{{Name: "ignored", Index: true}},
	func(rows, cols int64) [][]int64 {
		return [][]int64{{rows, cols}, {rows}, {cols}, {rows}, {rows}, {rows}, {rows}}
	})

func init() { CrossEntropy.shapes, CrossEntropy.result = CrossEntropy.planNLL, ofTargets }
