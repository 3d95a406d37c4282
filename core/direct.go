package core

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
)

// Direct is a call that others run by themselves, in the turn of the executor's stream.
type Direct = call.Direct

// OwnFrame is the Operand of a DirectBase that is the frame itself.
const OwnFrame = call.OwnFrame

// FrameAlign is what the addresses of a Direct's frames are multiples of.
const FrameAlign = backends.FrameAlign

// What a Gate's word says.
const (
	GateOpen   = queue.GateOpen
	GateTaken  = queue.GateTaken
	GateShut   = queue.GateShut
	GateWanted = queue.GateWanted
)

// Gate lets others take the turn of the executor's stream by a word, in memory that does
// not move, which is GateShut and from now on the executor's; from Close on it stays
// so. It reports whether the device is one on which calls can be Direct.
func (ex *Executor) Gate(word *uint32) bool {
	s, ok := ex.stream.(*queue.Inline)
	if ok && ex.device.Info.Enters {
		s.Gate(word)
		return true
	}
	return false
}

// Direct publishes a call, which was made before and would be made again like that, as
// code that others may enter. What publish returns is called once when that ends,
// unless it is forgotten: thereafter nobody may enter it. never reports that there is no
// such code, nor will be.
func (ex *Executor) Direct(c *Call, publish func(*Direct) (retire func())) (never bool) {
	if c.Deleter != nil || c.Residue != nil || c.Stream != 0 || c.Fuel != 0 {
		return true
	}
	d := drafts.Get().(*draft)
	defer d.release()
	try := *c
	try.Try = true
	b, _, err := ex.bind(d, &try, nil)
	if err != nil {
		return false
	}
	defer b.Release()
	return !b.Direct(publish)
}

// WatchProfiles has f told whether anybody profiles from now on, and so wants to be told
// of all calls. It is for the start of the process.
func WatchProfiles(f func(profiled bool)) { profile.Watch = f }
