package backends

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVariables are looked at when they are asked for, until they are held.
func TestVariables(t *testing.T) {
	v := NewVariable("HOLOGRAM_OF_A_TEST")
	defer func() { variables = variables[:len(variables)-1] }()
	for _, text := range []string{"one", "two"} {
		t.Setenv(v.Name, text)
		require.Equal(t, text, v.Get())
	}
	HoldEnvironment()
	t.Setenv(v.Name, "three")
	require.Equal(t, "two", v.Get())
	HoldEnvironment()
	require.Equal(t, "three", v.Get())
}
