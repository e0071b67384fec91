//! The state of each block: free, in use, or kept for its prefix.

use std::collections::{BTreeMap, HashMap};

use specfleet_speculation::TokenId;

use super::BLOCK_TOKENS;

/// Names the chain of tokens that a published block ends. Never used for another chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Serial(u64);

impl Serial {
    /// The empty chain, which every first block follows.
    pub(super) const ROOT: Self = Self(0);
}

/// What a published block holds: sixteen tokens after those of the chain that `predecessor` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) predecessor: Serial,
    pub(super) tokens: [TokenId; BLOCK_TOKENS],
}

/// All blocks and who finds them.
#[derive(Debug)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// Blocks that nobody has and that hold nothing worth keeping.
    free: Vec<u32>,
    /// Blocks that nobody has but whose prefix can be reused, the longest unused first.
    reusable: BTreeMap<u64, u32>,
    published: HashMap<Link, u32>,
    next_serial: u64,
    next_tick: u64,
}

#[derive(Debug, Default)]
struct Block {
    n_users: u32,
    published: Option<(Serial, Link)>,
    /// The key in `reusable`, while the block is there.
    reusable_since: Option<u64>,
}

impl Blocks {
    /// All free.
    pub(super) fn new(n_blocks: usize) -> Self {
        let n_blocks = u32::try_from(n_blocks).unwrap_or(u32::MAX);
        Self {
            blocks: (0..n_blocks).map(|_| Block::default()).collect(),
            free: (0..n_blocks).rev().collect(),
            reusable: BTreeMap::new(),
            published: HashMap::new(),
            next_serial: Serial::ROOT.0 + 1,
            next_tick: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn n_available(&self) -> usize {
        self.free.len() + self.reusable.len()
    }

    /// The block that holds `link`, and the serial of the chain it ends.
    pub(super) fn find(&self, link: &Link) -> Option<(u32, Serial)> {
        let &id = self.published.get(link)?;
        let (serial, _) = self.blocks[id as usize].published?;
        Some((id, serial))
    }

    /// Makes block `id` found by `link`. Returns the serial of the chain it ends.
    pub(super) fn publish(&mut self, id: u32, link: Link) -> Serial {
        self.withdraw(id);
        let serial = Serial(self.next_serial);
        self.next_serial += 1;
        self.blocks[id as usize].published = Some((serial, link));
        self.published.insert(link, id);
        serial
    }

    fn withdraw(&mut self, id: u32) {
        if let Some((_, link)) = self.blocks[id as usize].published.take() {
            self.published.remove(&link);
        }
    }

    /// Whether the block may be written to from now on. A published block without other users is withdrawn.
    pub(super) fn make_private(&mut self, id: u32) -> bool {
        let sole_user = self.blocks[id as usize].n_users == 1;
        if sole_user {
            self.withdraw(id);
        }
        sole_user
    }

    /// One more user of a published block.
    pub(super) fn take_shared(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        block.n_users += 1;
        if let Some(tick) = block.reusable_since.take() {
            self.reusable.remove(&tick);
        }
    }

    /// A block for one user alone: a free one, else the one whose prefix was longest unused.
    pub(super) fn take_private(&mut self) -> Option<u32> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let (_, id) = self.reusable.pop_first()?;
                self.withdraw(id);
                id
            }
        };
        self.blocks[id as usize] = Block { n_users: 1, ..Block::default() };
        Some(id)
    }

    /// One user less. Without users, a published block is kept as long as the space is not needed.
    pub(super) fn give_back(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        block.n_users = block.n_users.saturating_sub(1);
        if block.n_users > 0 {
            return;
        }
        if block.published.is_some() {
            block.reusable_since = Some(self.next_tick);
            self.reusable.insert(self.next_tick, id);
            self.next_tick += 1;
        } else {
            self.free.push(id);
        }
    }
}
