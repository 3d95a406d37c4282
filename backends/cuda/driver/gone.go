package driver

import "sync/atomic"

// Word is a word that the driver sets when what was given to a graph, as a user
// object with TellGone as its destructor, is no longer needed: the graph and all
// that was made of it are destroyed, and replays that were under way are over. The
// driver does so on a thread of its own, which must not call it.
type Word struct{ gone uint32 }

// Gone reports whether it did.
func (w *Word) Gone() bool { return atomic.LoadUint32(&w.gone) != 0 }
