// A certified OpenID provider on loopback, for one client. Whoever signs in under a name is who the environment says.
import { generateKeyPair, exportJWK } from 'jose';
import Provider from 'oidc-provider';

const port = Number(process.env.PORT);
const people = JSON.parse(process.env.PEOPLE);
// Another one at each start: a restart is a rotation.
const { privateKey } = await generateKeyPair('RS256', { extractable: true });
const key = { ...(await exportJWK(privateKey)), kid: String(Date.now()), alg: 'RS256', use: 'sig' };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: process.env.CLIENT,
    client_secret: process.env.SECRET,
    redirect_uris: [process.env.REDIRECT],
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
  }],
  jwks: { keys: [key] },
  cookies: { keys: ['stand-in'] },
  features: {
    deviceFlow: { enabled: true },
    // Access tokens for a resource (RFC 8707) are JWTs for that audience.
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_context, resource) => ({
        audience: resource, scope: 'headrace', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  extraTokenClaims: (_context, token) => {
    const { email, email_verified } = people[token.accountId] ?? {};
    return { email, email_verified };
  },
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
  // Half of the providers put claims into the ID token, the other half tells them when asked.
  conformIdTokenClaims: process.env.CONFORM === 'true',
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
});
provider.listen(port, '127.0.0.1');
