package cuda_test

import (
	"flag"
	"sync"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cuda"
)

// context keeps the device's context from being made anew by each test.
var context = sync.OnceValue(func() error {
	_, err := cuda.New().Open(0)
	return err
})

// device skips the test where there is no GPU, and says why.
func device(t testing.TB) {
	t.Helper()
	if _, err := cuda.New().Devices(); err != nil {
		t.Skipf("no GPU: %v", err)
	}
	if err := context(); err != nil {
		t.Fatal(err)
	}
}

var level = flag.Int("level", 4, "at which level, 0 to 4, the driver optimises conformance's programs")

func TestConformance(t *testing.T) {
	device(t)
	conformance.Run(t, func() backends.Backend { return cuda.NewAtLevel(int32(*level)) })
}
