package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// stay is what a guest recorded in its owner's graph: a user object of that, whose
// destructor sets the word.
type stay struct {
	s    *stream
	word *driver.Word
}

// Captured reports whether others capture the stream.
func (s *stream) Captured() bool {
	s.mu.Lock()
	err := s.open("a question")
	if err == nil {
		err = s.device.leave(s.pushed, &s.current)
		s.mu.Unlock()
	}
	return errors.Is(err, backends.ErrCaptured)
}

// Join records what comes in the graph of the stream's owner.
func (s *stream) Join() (backends.Stay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("cuda: join: %w", err)
	}
	word := driver.NewWord()
	taken := false // the driver has the word
	err := s.device.within(func() error {
		api := s.device.api
		var graph driver.Graph
		var number uint64
		r := api.CaptureInfo(s.handle, &s.status, &number, &graph, nil, nil)
		switch {
		case r == driver.CaptureImplicit:
			return errors.New("the default stream would wait for a stream that its owner captures")
		case r != driver.Success:
			return api.Check("cuStreamGetCaptureInfo", r)
		case s.status != driver.CaptureActive:
			return errors.New("its owner's capture has ended, or failed")
		}
		var object driver.UserObject
		r = api.UserObjectCreate(&object, unsafe.Pointer(word), driver.TellGone(), 1, driver.NoDestructorSync)
		if err := api.Check("cuUserObjectCreate", r); err != nil {
			return err
		}
		taken = true
		r = api.GraphRetain(graph, object, 1, driver.MoveReference)
		if r == driver.Success {
			return nil
		}
		// Its end sets the word, at some time: it is not freed.
		return errors.Join(api.Check("cuGraphRetainUserObject", r), api.Check("cuUserObjectRelease", api.UserObjectRelease(object, 1)))
	})
	if err != nil {
		if !taken {
			word.Free()
		}
		return nil, fmt.Errorf("cuda: join: %w", s.device.classified(err))
	}
	s.joined = true
	return &stay{s, word}, nil
}

// Leave ends Join.
func (y *stay) Leave() {
	y.s.mu.Lock()
	y.s.joined = false
	y.s.mu.Unlock()
	y.s = nil
}

// Gone reports that the owner's graph is no more.
func (y *stay) Gone() bool {
	if y.word != nil && y.word.Gone() {
		y.word.Free()
		y.word = nil
	}
	return y.word == nil
}
