package pyruntime

import (
	"path/filepath"
	"slices"
	"strings"

	"cdui/internal/protocol"
)

// BeforeStart tells whether a variable counts before a script's first line: for
// the loader, the interpreter, or a library that is read while torch is
// imported. Such a one can't be given to an interpreter that has started. Any
// other is the program's own, which reads it when it runs.
func BeforeStart(name string) bool {
	return matches([]string{
		// The loader and C's library.
		"LD_*", "DYLD_*", "GLIBC_TUNABLES", "MALLOC_*", "GCONV_PATH", "LOCPATH", "NLSPATH",
		// The interpreter and its start-up files.
		"PYTHON*", "__PYVENV_LAUNCHER__", "HOME", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR", "TEMP", "TMP", "XDG_*",
		// Which devices there are.
		"CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "AMD_*", "GPU_*", "ZE_*", "SYCL_*", "ONEAPI_*",
		// Threads and kernels of the libraries that torch loads.
		"OMP_*", "GOMP_*", "KMP_*", "MKL_*", "MKLDNN_*", "DNNL_*", "ONEDNN_*", "OPENBLAS_*", "GOTO_*", "BLIS_*", "VECLIB_*", "NUMEXPR_*", "TBB_*",
		// torch and what its import imports.
		"TORCH*", "PYTORCH_*", "ATEN_*", "C10_*", "KINETO_*", "TRITON_*", "NCCL_*", "GLOO_*", "CUDNN_*", "CUBLAS_*",
		"NPY_*", "NUMPY_*", "TQDM_*", "SYMPY_*", "MPMATH_*",
	}, name)
}

// Ahead gives how a child like argv's is started ahead of its run, and which
// part of env counts by then. False: such a one can only be started when its
// run is there.
func Ahead(kind protocol.Kind, argv, env []string) (head, start []string, ok bool) {
	switch {
	case kind == protocol.KindScript && len(argv) > 4 && argv[3] == "script":
		head = argv[:3]
	case kind == protocol.KindGraph && len(argv) == 5:
		head = argv
	default:
		return nil, nil, false
	}
	if !filepath.IsAbs(head[0]) {
		return nil, nil, false
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !BeforeStart(name) {
			continue
		}
		// A secret is nobody else's, and a folder relative to where one run
		// stands is not where another does.
		if SecretLooking(name) || name == "PYTHONPATH" && slices.ContainsFunc(filepath.SplitList(value), relative) {
			return nil, nil, false
		}
		start = append(start, entry)
	}
	slices.Sort(start)
	return append(slices.Clone(head), "spare"), start, true
}

func relative(path string) bool { return !filepath.IsAbs(path) }
