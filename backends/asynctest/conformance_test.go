package asynctest_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func() backends.Backend { return asynctest.New(asynctest.Options{}) })
}
