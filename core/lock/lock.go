// Package lock has core's mutexes, each with its place in the one order in which
// they may be taken. With the build tag lockorder whoever takes one out of order
// ends the process, with his stack; without it they are sync's own and cost
// nothing. (With the race detector they are sync's too: what the check itself
// locks would hide races.)
package lock

// The places, in their order. A turn of a stream is none of the mutexes, but as
// good as one.
type (
	Standard struct{} // of the process's own executor
	Devices  struct{} // of which devices are open
	Turn     struct{} // of a stream
	Looking  struct{} // what has passed on a stream: on the executor's own, then on those of others
	Executor struct{}
	Lane     struct{} // of a stream's state
	Event    struct{}
	Order    struct{} // of a device: in which order streams use memory
	Line     struct{} // of a stream, as memory knows it
	Last     struct{} // of all others
)
