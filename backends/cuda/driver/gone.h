#pragma once

void hologram_cuda_tell_gone(void *word);
