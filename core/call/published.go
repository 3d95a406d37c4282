package call

import (
	"slices"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
)

// published are a device's calls that others may enter now.
type published struct {
	mu    lock.Mutex[lock.Last]
	of    map[*Prepared]map[*Direct]struct{}
	ended uint64 // how often all were
}

// epoch is what add takes of who makes code from now on.
func (all *published) epoch() uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.ended
}

// add adds what was made since an epoch, unless all ended meanwhile.
func (all *published) add(d *Direct, epoch uint64) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ended != epoch {
		return false
	}
	if all.of[d.p] == nil {
		if all.of == nil {
			all.of = map[*Prepared]map[*Direct]struct{}{}
		}
		all.of[d.p] = map[*Direct]struct{}{}
	}
	all.of[d.p][d] = struct{}{}
	return true
}

// take removes and returns all that there is of a call.
func (all *published) take(p *Prepared) map[*Direct]struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	list := all.of[p]
	delete(all.of, p)
	return list
}

// remove removes one, if it is there.
func (all *published) remove(d *Direct) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if list := all.of[d.p]; list != nil {
		if delete(list, d); len(list) == 0 {
			delete(all.of, d.p)
		}
	}
}

// Unpublish ends all that is published of the device's calls, for what they were made
// for is so no more. Calls that come may be published again.
func (d *Device) Unpublish() {
	all := &d.published
	ended := map[*Prepared]map[*Direct]struct{}{}
	all.mu.Lock()
	all.ended++
	for p, list := range all.of {
		if p.Acquire() { // else its own end is about to retire it
			ended[p] = list
			delete(all.of, p)
		}
	}
	all.mu.Unlock()
	for p, list := range ended {
		if rest := retire(list); rest != nil {
			rest()
		}
		p.Release()
	}
}

// retire ends what was published, at once or, where somebody is in the midst of it, by what it
// returns: who ends a call may hold a lock that others wait for.
func retire(list map[*Direct]struct{}) (rest func()) {
	var waits []func()
	for d := range list {
		wait := d.retire()
		if wait == nil {
			d.end()
			continue
		}
		waits = append(waits, func() {
			wait()
			d.end()
		})
	}
	if waits == nil {
		return nil
	}
	return func() {
		for _, wait := range waits {
			wait()
		}
	}
}

// Direct has the call, as it is bound, published as code to be entered in the turn of the
// stream of line or, unless it enters, as one that is not to be: publish gets it, and
// returns what ends it; nil: it is not published. Nor is a call that cannot be entered now.
func (b *Bound) Direct(line *memory.Line, enters bool, turn Turn, publish func(*Direct) Retire) {
	p := b.p
	all := &p.device.published
	epoch := all.epoch()
	var d *Direct
	if enters {
		never := false
		if d, never = b.direct(line, turn); d == nil && !never {
			return
		}
	}
	if d == nil {
		d = &Direct{p: p, end: func() {}}
	} else {
		p.enteredOn(line)
	}
	if d.retire = publish(d); d.retire == nil {
		d.end()
	} else if !all.add(d, epoch) {
		if rest := retire(map[*Direct]struct{}{d: {}}); rest != nil && p.Acquire() {
			go func() {
				rest()
				p.Release()
			}()
		}
	}
}

// enteredOn notes a line, and forgets those that are closed.
func (p *Prepared) enteredOn(line *memory.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = slices.DeleteFunc(p.lines, func(l *memory.Line) bool { return l == line || l.Closed() })
	p.lines = append(p.lines, line)
}

// Forget says that nobody enters the code any more.
func (d *Direct) Forget() {
	d.p.device.published.remove(d)
	d.end()
}

// retire ends all that was published of the call, and lets go of the rest once what was
// entered has passed: at once, or from a goroutine. The call has no user any more.
func (p *Prepared) retire(letGo func()) {
	rest := retire(p.device.published.take(p))
	var passed func()
	if rest == nil {
		if passed = p.entered(); passed == nil {
			letGo()
			return
		}
	}
	go func() {
		if rest != nil {
			rest()
			passed = p.entered()
		}
		if passed != nil {
			passed()
		}
		letGo()
	}()
}

// entered returns what waits until all that was entered has passed; nil if it has.
func (p *Prepared) entered() (wait func()) {
	lines := p.lines
	tickets := make([]backends.Ticket, len(lines))
	busy := false
	for i, l := range lines {
		tickets[i] = l.Given()
		busy = busy || !l.Passed(tickets[i])
	}
	if !busy {
		return nil
	}
	return func() {
		for i, l := range lines {
			for pause := 100 * time.Microsecond; !l.Passed(tickets[i]); pause = min(2*pause, queue.LookTime) {
				time.Sleep(pause)
			}
		}
	}
}
