package core

import (
	"time"

	"github.com/hologram-project/hologram/core/profile"
)

// Profile is what happens in the process, on all executors, from its beginning to its
// Stop: calls, what streams run, what is compiled, memory taken from devices. Several
// may be under way, and all get everything.
type Profile struct{ p *profile.Profile }

// DefaultEvents is how many events a profile keeps if nobody says.
const DefaultEvents = profile.DefaultLimit

// NewProfile begins a profile that keeps the first so many events; 0: DefaultEvents.
func NewProfile(limit int64) (*Profile, error) {
	const most = 1 << 26
	if limit < 0 || limit > most {
		return nil, Errorf(Invalid, "profile: limit is %d events; expected 1 … %d, or 0 for %d", limit, most, DefaultEvents)
	}
	return &Profile{profile.Start(int(limit))}, nil
}

// Stop ends the profile and returns how many works are still under way on devices
// that work by themselves, which the profile is told of once they have passed. Of what
// begins from now on it is not told. Stopping again only counts.
func (p *Profile) Stop() (underWay int64) { return p.p.Stop() }

// Chrome writes the events so far in Chrome's trace event format, which Perfetto
// reads. version is what it says of the library's. The caller has room for so many
// bytes: a text that is longer is kept for the next who has room for it.
func (p *Profile) Chrome(version string, room int) ([]byte, error) {
	text, err := p.p.Chrome(version, room)
	if err != nil {
		return nil, Errorf(Internal, "profile: %w", err)
	}
	return text, nil
}

// Close ends the profile and lets go of its events.
func (p *Profile) Close() { p.p.Close() }

// Wait is the event's Wait, as profiles see it: by a thread of the caller's.
func Wait(ev *Event, d time.Duration) error {
	if profile.On() == nil || ev.Done() {
		return ev.Wait(d)
	}
	span := profile.Begin()
	err := ev.Wait(d)
	span.End(profile.Event{Kind: profile.Wait, Name: "wait"}, nil)
	return err
}
