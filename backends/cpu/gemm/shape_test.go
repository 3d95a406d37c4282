package gemm

import "testing"

// TestHoldersKeepLittle: many launches at once that share all they may leave no more memory
// behind than is meant to be kept, and who needs much finds what is as large.
func TestHoldersKeepLittle(t *testing.T) {
	clearHolders := func() {
		for i, w := range holders.free {
			if w != nil {
				w.free()
				holders.free[i] = nil
			}
		}
	}
	clearHolders()
	defer clearHolders()
	var at []*worker
	for i := range len(holders.free) + 2 {
		bytes := int64(maxShared)
		if i == 0 {
			bytes = 1 << 12
		}
		w := takeHolder(bytes)
		if w.room(roomB, bytes); w.err != nil {
			t.Fatal(w.err)
		}
		at = append(at, w)
	}
	for _, w := range at {
		giveHolder(w)
	}
	kept := int64(0)
	for _, w := range holders.free {
		if w != nil {
			kept += w.rooms[roomB].Bytes
		}
	}
	if kept < maxShared || kept > keptShared {
		t.Errorf("%d bytes are kept", kept)
	}
	for _, bytes := range []int64{maxShared, 1 << 10} {
		w := takeHolder(bytes)
		if w.rooms[roomB].Bytes < bytes {
			t.Errorf("there are %d bytes for %d", w.rooms[roomB].Bytes, bytes)
		}
		giveHolder(w)
	}
}
