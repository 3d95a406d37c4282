package asynctest

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/backends"
)

// unified is a device that is no Importer.
type unified struct {
	backends.Device
	backends.Planner
	backends.Locator
	backends.Meter
}

// imported is memory of others that work may use. The same may be imported
// several times, and imports may overlap.
type imported struct{ lo, hi uintptr }

// Import lets work use memory of others: where the host sees the device's memory
// any of the host's, as Metal makes a MTLBuffer of it without a copy; else what
// others have on the device.
func (d *device) Import(addr uintptr, bytes int64) error {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	if err := d.usable("import"); err != nil {
		return err
	}
	b.counts.Imports++
	d.importing++
	switch {
	case d.importing == b.options.FailImport:
		b.counts.Injected++
		return fmt.Errorf("asynctest: import %d bytes at %#x: %w", bytes, addr, ErrInjected)
	case addr == 0 || bytes < 0 || addr+uintptr(bytes) < addr:
		return fmt.Errorf("asynctest: import %d bytes at %#x: there is no such memory", bytes, addr)
	case d.ofOthers(addr, bytes) == nil:
		if k := d.blocks.find(addr, bytes); k == nil || k.owner != ofDevice { // exported, and back again
			return fmt.Errorf("asynctest: import %d bytes at %#x: the device cannot reach them; make a copy on it", bytes, addr)
		}
	}
	d.imports = append(d.imports, imported{addr, addr + uintptr(bytes)})
	return nil
}

// Forget ends an Import. That work uses what nobody else imported is a breach, but
// of an owner's replays, who needs no import of what is his.
func (d *device) Forget(addr uintptr, bytes int64) {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	b.counts.Forgets++
	i := slices.Index(d.imports, imported{addr, addr + uintptr(bytes)})
	if i < 0 {
		_ = b.breach("forget %d bytes at %#x, which are not imported", bytes, addr)
		return
	}
	d.imports = slices.Delete(d.imports, i, i+1)
	k := d.ofOthers(addr, bytes)
	if k == nil || d.lost {
		return
	}
	lo, hi := int64(addr-k.addr), int64(addr-k.addr)+bytes
	err := b.unusedIn("forget", k, func(w *work, from, to int64) bool {
		owners := w != nil && w.kind == kindForeign
		return !owners && from < hi && lo < to && !d.imported(k.addr+uintptr(from), to-from)
	})
	if err == nil {
		k.history = slices.DeleteFunc(k.history, func(a access) bool { return lo <= a.lo && a.hi <= hi && a.work.passed })
	}
}

// imported reports whether n bytes at addr lie in one import.
func (d *device) imported(addr uintptr, n int64) bool {
	return slices.ContainsFunc(d.imports, func(m imported) bool {
		return m.lo <= addr && addr <= m.hi && uintptr(n) <= m.hi-addr
	})
}

// ofOthers returns the block of memory of others in which n bytes at addr lie;
// nil if the device cannot reach them. All that others have of the host's is one
// block, so that imports which overlap have one history.
func (d *device) ofOthers(addr uintptr, n int64) *block {
	if k := d.backend.others[d.number].find(addr, n); k != nil {
		return k
	}
	if d.outside == nil || d.blocks.touches(addr, n) {
		return nil
	}
	return d.outside
}
