// Registers memory of Go's heap, ends the regions, has the runtime give free memory back, and looks at new memory.
package main

/*
#cgo LDFLAGS: -libverbs
#include <errno.h>
#include <infiniband/verbs.h>

static struct ibv_pd* open_pd(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = list != NULL && *list != NULL ? ibv_open_device(*list) : NULL;
  return context != NULL ? ibv_alloc_pd(context) : NULL;
}

static int register_and_deregister(struct ibv_pd* pd, void* address, size_t length) {
  struct ibv_mr* mr = ibv_reg_mr(pd, address, length, IBV_ACCESS_LOCAL_WRITE);
  return mr == NULL ? errno : ibv_dereg_mr(mr);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"unsafe"
)

const rounds = 60
const fill = 0xa5

var pd *C.struct_ibv_pd

func check(is bool, format string, values ...interface{}) {
	if !is {
		fmt.Printf(format+"\n", values...)
		os.Exit(1)
	}
}

func enterAndLeave(memory []byte) {
	err := C.register_and_deregister(pd, unsafe.Pointer(&memory[0]), C.size_t(len(memory)))
	check(err == 0, "expected %d bytes to be registered: error %d", len(memory), err)
}

func countOtherThan(memory []byte, value byte) int {
	count := 0
	for _, is := range memory {
		if is != value {
			count++
		}
	}
	return count
}

// The mappings of a slice that are not private anonymous memory.
func notOrdinary(memory []byte) string {
	first := uint64(uintptr(unsafe.Pointer(&memory[0])))
	file, err := os.Open("/proc/self/maps")
	check(err == nil, "%v", err)
	defer file.Close()
	found := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var from, to, offset, inode uint64
		var flags, device string
		fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &from, &to, &flags, &offset, &device, &inode)
		if from < first+uint64(len(memory)) && to > first && (!strings.HasSuffix(flags, "p") || inode != 0) {
			found += lines.Text() + "; "
		}
	}
	return found
}

func heap(size int) {
	memory := make([]byte, size)
	for i := range memory {
		memory[i] = fill
	}
	enterAndLeave(memory)
	check(countOtherThan(memory, fill) == 0, "expected a slice to keep its content after its region")
	shared := notOrdinary(memory)
	check(shared == "", "expected private anonymous memory after a region, found %s", shared)
	memory = nil
	debug.FreeOSMemory()
	dirty := countOtherThan(make([]byte, size), 0)
	check(dirty == 0, "expected a new slice of %d bytes to be zeros, %d are not", size, dirty)
}

func mapped() {
	memory, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(err == nil, "%v", err)
	for i := range memory {
		memory[i] = fill
	}
	enterAndLeave(memory)
	err = syscall.Madvise(memory, syscall.MADV_DONTNEED)
	dirty := countOtherThan(memory, 0)
	check(err == nil && dirty == 0, "expected zeros after MADV_DONTNEED (%v), %d bytes of %d are not", err, dirty, len(memory))
}

func main() {
	pd = C.open_pd()
	check(pd != nil, "expected a device")
	if len(os.Args) > 1 && os.Args[1] == "mapped" {
		mapped()
	} else {
		for i := 0; i < rounds; i++ {
			heap([]int{8192, 100000, 1 << 20, 4 << 20}[i%4])
		}
	}
	fmt.Println("all as expected")
}
