//go:build lockorder

package lock

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestABrokenOrderIsTold, and one that is kept is not.
func TestABrokenOrderIsTold(t *testing.T) {
	var told []string
	before := broken
	broken = func(text string) { told = append(told, text) }
	defer func() { broken = before }()
	var (
		looks, others Mutex[Looking]
		ex            Mutex[Executor]
		lanes         Mutex[Lane]
		memory        Mutex[Order]
		lines         RWMutex[Line]
		pool, cache   Mutex[Last]
	)
	for name, c := range map[string]struct {
		take []sync.Locker
		want string
	}{
		"works":           {[]sync.Locker{&looks, &others, &ex, &lanes, &pool}, ""},
		"memory":          {[]sync.Locker{&memory, &lines, &pool}, ""},
		"the wrong way":   {[]sync.Locker{&lanes, &ex}, "Executor.mu is taken by who holds lane.mu"},
		"one place twice": {[]sync.Locker{&pool, &cache}, "a lock that is the last is taken by who holds a lock that is the last"},
		"memory in works": {[]sync.Locker{&ex, &memory}, "Device.order is taken by who holds Executor.mu"},
		"behind the last": {[]sync.Locker{&pool, &lines}, "memory.Line is taken by who holds a lock that is the last"},
	} {
		t.Run(name, func(t *testing.T) {
			told = nil
			Enter[Turn]()
			for _, l := range c.take {
				l.Lock()
			}
			for _, l := range c.take {
				l.Unlock()
			}
			Leave[Turn]()
			if c.want == "" {
				require.Empty(t, told)
			} else {
				require.Equal(t, []string{c.want}, told)
			}
			None()
		})
	}
	told = nil
	lines.RLock()
	None()
	require.True(t, ex.TryLock(), "who does not wait may come out of order")
	ex.Unlock()
	lines.RUnlock()
	require.Equal(t, []string{"code of others runs under memory.Line"}, told)
	Leave[Turn]()
	require.Equal(t, "a stream's turn is given back by who does not hold it", told[1])
	require.Empty(t, held.by)
}
