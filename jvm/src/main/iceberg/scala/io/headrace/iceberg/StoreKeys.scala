package io.headrace.iceberg

import java.net.URI
import java.util

import software.amazon.awssdk.auth.credentials.{
  AwsBasicCredentials,
  AwsCredentials,
  AwsCredentialsProvider,
  StaticCredentialsProvider
}
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient
import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.services.sts.StsClient
import software.amazon.awssdk.services.sts.auth.StsAssumeRoleCredentialsProvider
import software.amazon.awssdk.services.sts.model.AssumeRoleRequest

/** A store's own keys, or those of the role that they may assume: Iceberg has settings for S3's keys alone, and else takes the machine's. */
final class StoreKeys private (keys: AwsCredentialsProvider) extends AwsCredentialsProvider {
  override def resolveCredentials(): AwsCredentials = keys.resolveCredentials().asInstanceOf[AwsCredentials]
}

object StoreKeys {

  /** Called by Iceberg with the settings under `client.credentials-provider.`. */
  def create(settings: util.Map[String, String]): StoreKeys = {
    val own = StaticCredentialsProvider.create(AwsBasicCredentials.create(settings.get("id"), settings.get("secret")))
    new StoreKeys(if (settings.containsKey("role")) ofRole(own, settings) else own)
  }

  // Asked for when they are first needed, and again before they expire.
  private def ofRole(own: AwsCredentialsProvider, settings: util.Map[String, String]): AwsCredentialsProvider = {
    val sts = StsClient
      .builder()
      .credentialsProvider(own)
      .region(Region.of(settings.get("region")))
      .httpClient(UrlConnectionHttpClient.create())
    Option(settings.get("sts")).foreach(address => sts.endpointOverride(URI.create(address)))
    val asked = AssumeRoleRequest
      .builder()
      .roleArn(settings.get("role"))
      .roleSessionName("headrace")
      .externalId(settings.get("external-id"))
      .build()
    StsAssumeRoleCredentialsProvider.builder().stsClient(sts.build()).refreshRequest(asked).build()
  }
}
