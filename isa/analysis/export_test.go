package analysis

// The generators of random programs and launches, for the tests against the
// interpreter, which imports this package.
var (
	NewAddresses = newAddresses
	RandomLaunch = randomLaunch
)
