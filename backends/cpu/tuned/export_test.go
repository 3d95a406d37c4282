package tuned

// SetKept sets for how many exponentials there is room, and returns what sets it back.
func SetKept(n int64) func() {
	before := keptElements
	keptElements = n
	return func() { keptElements = before }
}

// SetPastCaches sets from how many bytes on exponentials go past the caches, and returns what sets it back.
func SetPastCaches(n int64) func() {
	before := pastCaches
	pastCaches = n
	return func() { pastCaches = before }
}

// SetNearMemory sets how long arrays are that come from caches, the second and all, and returns what sets it back.
func SetNearMemory(n, asked int64) func() {
	near, before := nearMemory, askedMemory
	nearMemory, askedMemory = n, asked
	return func() { nearMemory, askedMemory = near, before }
}

// ForgetPrograms forgets the programs that were made.
func ForgetPrograms() { programs.Clear() }
