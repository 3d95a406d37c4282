module github.com/hologram-project/hologram

go 1.26
