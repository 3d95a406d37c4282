package memory

import "github.com/hologram-project/hologram/core/status"

// Account is a bound on what somebody's memory, of one pool, may take together.
// The pool's lock guards it.
type Account struct{ quota, used int64 }

// add counts what is asked for, if it is within the bound.
func (a *Account) add(r *request) error {
	if a == nil {
		return nil
	}
	if a.quota > 0 && r.size > a.quota-a.used {
		return status.Errorf(status.OutOfMemory, "%s more would exceed the executor's quota of %s, of which %s is taken",
			status.Size(r.bytes), status.Size(a.quota), status.Size(a.used))
	}
	a.used += r.size
	return nil
}

// sub takes away what was counted.
func (a *Account) sub(size int64) {
	if a != nil {
		a.used -= size
	}
}

// SetQuota bounds the bytes of an account; 0 lifts the bound.
func (p *Pool) SetQuota(a *Account, bytes int64) {
	p.mu.Lock()
	a.quota = bytes
	p.mu.Unlock()
}

// Account returns the bytes that an account's memory takes, and their bound; 0 is none.
func (p *Pool) Account(a *Account) (used, quota int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return a.used, a.quota
}
