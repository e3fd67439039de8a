//! All stored answers of one family that a role holds, however many: those for periods of a
//! question.

use super::Ledger;
use super::answers::FamilyId;
use super::error::Error;
use super::rules::Rules;
use super::store::{Access, StoreValue, blob, first_row};

impl Rules {
    /// How many answers of a family the role holds, and their bytes.
    pub(super) fn count_of_family(
        &mut self,
        role: i64,
        family: FamilyId,
    ) -> Result<(u64, u64), Error> {
        let sql =
            "SELECT count(*), CAST(coalesce(sum(length(released)), 0) AS bigint) FROM family \
            JOIN answer ON answer.id = family.answer JOIN holder ON holder.answer = answer.id
                   WHERE family.digest = $1 AND holder.role = $2";
        let rows = self
            .store
            .query(sql, &[blob(&family.0), StoreValue::Int(role)])?;
        let row = first_row(&rows)?;
        let number = |at| row.int(at).map(|n| u64::try_from(n).unwrap_or(0));
        Ok((number(0)?, number(1)?))
    }

    fn values_of_family(&mut self, role: &str, family: FamilyId) -> Result<Vec<Vec<u8>>, Error> {
        let role = StoreValue::Int(self.role(role)?.id);
        let sql = "SELECT released FROM family JOIN answer ON answer.id = family.answer JOIN \
            holder ON holder.answer = answer.id
                   WHERE family.digest = $1 AND holder.role = $2 ORDER BY answer.id";
        let rows = self.store.query(sql, &[blob(&family.0), role])?;
        rows.iter()
            .map(|row| row.blob(0).map(<[u8]>::to_vec))
            .collect()
    }
}

impl Ledger {
    /// How many bytes the answers of a family have that the role holds.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn bytes_of_family(&self, role: &str, family: FamilyId) -> Result<u64, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| {
                let role = rules.role(&role)?.id;
                Ok(rules.count_of_family(role, family)?.1)
            })
            .await
    }

    /// The values of all answers of a family that the role has paid for, the oldest first.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn values_of_family(
        &self,
        role: &str,
        family: FamilyId,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| {
                rules.values_of_family(&role, family)
            })
            .await
    }
}
