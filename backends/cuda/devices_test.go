package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// backendOf is a backend with devices of these compute capabilities, as 10 · major + minor.
func backendOf(capabilities ...int32) *Backend {
	f := newFake()
	attribute := f.api.DeviceAttribute
	f.api.DeviceGetCount = func(n *int32) driver.Result { *n = int32(len(capabilities)); return driver.Success }
	f.api.DeviceGet = func(d *driver.Device, i int32) driver.Result { *d = driver.Device(i); return driver.Success }
	f.api.DeviceAttribute = func(v *int32, a driver.Attribute, d driver.Device) driver.Result {
		switch a {
		case driver.ComputeMajor:
			*v = capabilities[d] / 10
		case driver.ComputeMinor:
			*v = capabilities[d] % 10
		default:
			return attribute(v, a, d)
		}
		return driver.Success
	}
	return &Backend{load: func() (*driver.API, error) { return f.api, nil }}
}

// TestDevicesThatAreTooOld: where no device can be opened the list says why, as
// opening does, and so do those who ask the list whether there is one.
func TestDevicesThatAreTooOld(t *testing.T) {
	b := backendOf(70, 61)
	_, err := b.Devices()
	require.EqualError(t, err, "cuda: device 0, F, has compute capability 7.0; needed is 7.5")
	_, err = b.Open(1)
	require.EqualError(t, err, "cuda: device 1, F, has compute capability 6.1; needed is 7.5")

	b = backendOf(61, 86)
	infos, err := b.Devices()
	require.NoError(t, err)
	require.Len(t, infos, 2)
	_, err = b.Open(0)
	require.EqualError(t, err, "cuda: device 0, F, has compute capability 6.1; needed is 7.5")
	d, err := b.Open(1)
	require.NoError(t, err)
	require.NoError(t, d.Close())

	infos, err = backendOf().Devices()
	require.NoError(t, err)
	require.Empty(t, infos)
}

func TestPropertiesOfDevices(t *testing.T) {
	infos, err := backendOf(86, 90).Devices()
	require.NoError(t, err)
	for i, capability := range []int{86, 90} {
		require.Equal(t, capability, infos[i].Capability)
		require.Equal(t, 132, infos[i].Processors)
		require.Equal(t, int64(1<<30), infos[i].MemoryBytes)
		require.Equal(t, int32(i), infos[i].DLPackID)
	}
}
