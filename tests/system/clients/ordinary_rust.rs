// Registers memory of Rust's heap, ends the regions, and looks at new memory. It calls the kernel past the C library.
use std::ffi::c_void;
use std::os::raw::c_int;

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *const *mut c_void;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut c_void;
    fn ibv_reg_mr(pd: *mut c_void, address: *mut c_void, length: usize, access: c_int) -> *mut c_void;
    fn ibv_dereg_mr(mr: *mut c_void) -> c_int;
}

const ROUNDS: usize = 60;
const FILL: u8 = 0xa5;
const LOCAL_WRITE: c_int = 1;

fn check(is: bool, what: String) {
    if !is {
        println!("{}", what);
        std::process::exit(1);
    }
}

fn register_and_deregister(pd: *mut c_void, memory: &mut [u8]) {
    let mr = unsafe { ibv_reg_mr(pd, memory.as_mut_ptr() as *mut c_void, memory.len(), LOCAL_WRITE) };
    check(!mr.is_null(), format!("expected {} bytes to be registered: {}", memory.len(), std::io::Error::last_os_error()));
    check(unsafe { ibv_dereg_mr(mr) } == 0, "expected a region to end".to_string());
}

fn count_other_than(memory: &[u8], value: u8) -> usize {
    memory.iter().filter(|is| **is != value).count()
}

/// The mappings of a slice that are not private anonymous memory.
fn not_ordinary(memory: &[u8]) -> Vec<String> {
    let first = memory.as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let overlaps = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bounds: Vec<usize> = words[0].split('-').map(|bound| usize::from_str_radix(bound, 16).unwrap()).collect();
        bounds[0] < first + memory.len() && bounds[1] > first && (!words[1].ends_with('p') || words[4] != "0")
    };
    maps.lines().filter(overlaps).map(str::to_string).collect()
}

#[cfg(target_arch = "x86_64")]
fn kernel(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result: isize;
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
                        lateout("rcx") _, lateout("r11") _)
    };
    result
}
#[cfg(target_arch = "x86_64")]
const MADVISE: usize = 28;

#[cfg(target_arch = "aarch64")]
fn kernel(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result: isize;
    unsafe { std::arch::asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c) };
    result
}
#[cfg(target_arch = "aarch64")]
const MADVISE: usize = 233;

const PAGE: usize = 4096;
const DONT_NEED: usize = 4;

fn vectors(pd: *mut c_void) {
    for round in 0..ROUNDS {
        let size = [8192, 100_000, 1 << 20, 4 << 20][round % 4];
        let mut memory = vec![FILL; size];
        register_and_deregister(pd, &mut memory);
        check(count_other_than(&memory, FILL) == 0, "expected a vector to keep its content after its region".to_string());
        let shared = not_ordinary(&memory);
        check(shared.is_empty(), format!("expected private anonymous memory after a region, found {:?}", shared));
        drop(memory);
        let dirty = count_other_than(&vec![0; size], 0);
        check(dirty == 0, format!("expected a new vector of {} bytes to be zeros, {} are not", size, dirty));
    }
}

/// As an allocator does that is written in Rust.
fn dont_need(pd: *mut c_void) {
    let mut memory = vec![FILL; 1 << 20];
    register_and_deregister(pd, &mut memory);
    let skip = PAGE - memory.as_ptr() as usize % PAGE;
    let pages = &memory[skip..skip + (1 << 19)];
    let result = kernel(MADVISE, pages.as_ptr() as usize, pages.len(), DONT_NEED);
    let dirty = count_other_than(pages, 0);
    check(result == 0 && dirty == 0, format!("expected zeros after MADV_DONTNEED ({}), {} bytes are not", result, dirty));
}

fn main() {
    let list = unsafe { ibv_get_device_list(std::ptr::null_mut()) };
    let pd = unsafe { ibv_alloc_pd(ibv_open_device(*list)) };
    if std::env::args().nth(1).as_deref() == Some("dont_need") {
        dont_need(pd);
    } else {
        vectors(pd);
    }
    println!("all as expected");
}
