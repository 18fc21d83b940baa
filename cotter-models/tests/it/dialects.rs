//! What holds for every dialect, through a real agent: text, calls, thinking, pictures, long streams,
//! aborts, drops, waits, and a prefix that stays.
